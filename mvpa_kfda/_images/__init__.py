"""From nilearn's images, and tables, to arrays and to what is decoded together."""
