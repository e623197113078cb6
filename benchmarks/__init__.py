"""Speed and cost, measured side by side and printed as ratios; nothing here is a test, and no absolute time is a promise."""
