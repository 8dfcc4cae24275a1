"""BindableResourcesRequest: an invitation that is asked for by an object."""
