"""From a BIDS dataset to a derivative dataset of decoding results."""
