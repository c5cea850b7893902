"""The plumbing under all routes: who calls and what they may, bodies, errors, transfers, connections, proxies."""
