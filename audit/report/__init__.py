"""What people read: terminal output, report files, the catalogue in words. Nothing is computed here."""
