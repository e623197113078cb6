"""A target's DSN with something in it changed."""


def split_dsn(dsn: str) -> tuple[str, str]:
    """Return template and parameters of a DSN."""
    template, _, query = dsn.partition("://")[2].partition("?")
    return template, query


def with_template(dsn: str, template: str) -> str:
    """Return a DSN with another template."""
    query = split_dsn(dsn)[1]
    return f"{dsn.partition('://')[0]}://{template}" + (f"?{query}" if query else "")
