"""What comes in: epochs, images, atlases, and simulated data."""
