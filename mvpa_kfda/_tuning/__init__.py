"""What tuning is made of: inner folds, candidates, what they are chosen by."""
