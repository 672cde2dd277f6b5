"""Text as a log may hold it: markup of every kind, and characters that act."""

HOSTILE = "[red]x[/] \x1b[2J <img src=x onerror=alert(1)> | **b** `c` $x$ \u202egpj.exe \x9b @me https://evil.example"
