"""How any page is made: its view, its HTML, and the updates of an open page."""
