"""What each program has to have done before it goes, one module for each."""
