"""What writes notes."""
