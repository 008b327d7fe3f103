"""Records of so many keys that they are made in parts."""
