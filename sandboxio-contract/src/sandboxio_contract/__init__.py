"""The contract every sandboxio adapter is judged by."""
