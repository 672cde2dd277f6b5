"""The dashboard: a Streamlit frame around the analyses of ``audit``. It computes nothing itself."""
