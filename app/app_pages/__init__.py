"""The pages of the dashboard: each asks for numbers and draws them."""
