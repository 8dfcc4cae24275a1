"""The work of ``fairlead provider``, with a person's rights: invite, consumers, rotate, revoke."""
