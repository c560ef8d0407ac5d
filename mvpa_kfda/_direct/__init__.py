"""What the direct step is made of: rules, label columns, fold models."""
