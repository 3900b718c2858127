"""The papers' tables and figures by one command: `weightwright reproduce`."""
