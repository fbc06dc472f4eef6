"""Where a bundle goes next."""
