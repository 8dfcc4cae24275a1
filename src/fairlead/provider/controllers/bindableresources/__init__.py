"""BindableResourcesRequest: the request for an invitation, as an object."""
