"""A table goes in, an answer and a chart come out.

The code is what a model would have written; it runs in the sandbox, which has
pandas and matplotlib (image code-interpreter) and no way out.

	python3 data_analysis.py [CHART.png]
"""

import sys

from carrel import CarrelError, Sandbox

TABLE = "month,city,rain\n" + "".join(
    f"{month},{city},{(month * step) % 97 + base}\n"
    for city, step, base in (("Ulm", 13, 20), ("Bern", 29, 35), ("Graz", 7, 10))
    for month in range(1, 13))

CODE = """
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

table = pd.read_csv("rain.csv")
by_city = table.pivot(index="month", columns="city", values="rain")
print(by_city.sum().sort_values(ascending=False).to_string())
by_city.plot(kind="bar", figsize=(8, 4), title="Rain by month")
plt.tight_layout()
plt.savefig("chart.png", dpi=80)
"""


def main():
    to = sys.argv[1] if len(sys.argv) > 1 else "chart.png"
    try:
        box = Sandbox.create("code-interpreter", memory="1G", timeout="10m")
    except CarrelError as e:
        # 77 is a test that was skipped.
        print(f"SKIPPED: {e.message} (`carrel image build code-interpreter` "
              "makes the image)", file=sys.stderr)
        sys.exit(77)
    with box:
        if not box.run("python3 -c 'import matplotlib, pandas'").ok:
            print("SKIPPED: the image has no matplotlib or no pandas",
                  file=sys.stderr)
            sys.exit(77)
        box.files.write("rain.csv", TABLE)
        box.files.write("analysis.py", CODE)
        r = box.run("python3 analysis.py", check=True, timeout=120)
        print(r.stdout, end="")
        chart = box.files.read_bytes("chart.png")
    with open(to, "wb") as f:
        f.write(chart)
    print(f"{to}: {len(chart)} bytes")


if __name__ == "__main__":
    main()
