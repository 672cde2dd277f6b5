"""Complete the list of packages: app/ and schemas/ ship inside the wheel as audit.app and audit.schemas."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["audit", "audit.*"]),
        "audit.app",
        "audit.app.app_pages",
        "audit.schemas",
    ]
)
