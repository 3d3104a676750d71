"""What the papers publish, as data, and the rule that says whether it holds."""
