"""How many connections a process may hold: the limit of open descriptors, as high as the system allows."""

import resource

# Beyond it nobody has so many clients, and some programs look at every number below the limit.
ENOUGH = 2**20


def raise_descriptor_limit() -> int:
    """The new limit, for this process and the children that it starts.

    Many systems begin with 1,024, which is meant for programs that use select().
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft
