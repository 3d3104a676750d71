"""The papers' published statements as data, and the rule for their verdicts."""
