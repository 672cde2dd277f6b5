"""What people read: text for the terminal, files for others, the catalogue in words. Nothing is computed here."""
