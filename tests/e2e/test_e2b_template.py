# suite: npm
"""Templates and volumes over the E2B SDK, and what becomes of builds."""

import clients
import harness


@clients.cases("e2b_template.test.mjs", variants=["e2b"])
class Templates(clients.Case):
    pass


if __name__ == "__main__":
    harness.main()
