"""What ``fairlead provider`` does with a person's rights: invite, consumers, rotate, revoke."""
