"""From the results of many subjects to one: the parts of the group analysis."""
