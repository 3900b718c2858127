"""One file per kind of head. Each designs keys and values; `assemble` puts them on registers."""
