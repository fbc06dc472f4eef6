"""What a broker serves to browsers and monitors, beside its own port: a page, an account, metrics, signs of health."""
