"""The icon of the browser's tab, as a picture of our own: a named icon would be fetched from the internet."""

from __future__ import annotations

ICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'>"
    "<rect width='32' height='32' rx='7' fill='#1f4e79'/>"
    "<path d='M6 23l6-8 5 5 9-12' fill='none' stroke='#fff' stroke-width='3.4' stroke-linecap='round' "
    "stroke-linejoin='round'/></svg>"
)
