# suite: npm
"""Templates and volumes over the E2B SDK, and what becomes of builds."""

import clients
import harness


@clients.cases("e2b_template.test.mjs", variants=["e2b"])
class Templates(clients.Case):
    pass


@clients.cases("e2b_volume.test.mjs", variants=["e2b"])
class Volumes(clients.Case):
    def environment(self):
        return {**super().environment(), "E2B_VOLUME_API_URL": self.url}


if __name__ == "__main__":
    harness.main()
