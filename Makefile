# Every target sets up its own environment in .venv first; nothing else is needed but Python >= 3.11.
PYTHON ?= python3
BIN := .venv/bin
UV ?= uv
NET ?= build/demo.safetensors

.PHONY: demo test test-all bench docs lint lock dist clean

.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --upgrade pip
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --group dev \
		-e '.[onnx,lens,sklearn,graph,experiments]'
	touch $@

demo: .venv/.ready
	mkdir -p $(dir $(NET))
	$(BIN)/weightwright approximate 'sin(5*x)' --domain='-1 1' --tol 1e-8 --out $(NET) --plot $(NET:.safetensors=.png)
	$(BIN)/weightwright check $(NET)
	$(BIN)/weightwright run $(NET) -- -1 -0.5 0 0.5 1

# U+FFFD stands where a character was lost: the last line looks for it, in texts full of Greek letters.
TEXTS := benchmarks docs examples notebooks src tests tools $(wildcard *.md)

lint: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell
	$(BIN)/rumdl check --silent .
	$(BIN)/zizmor --offline --quiet .github
	$(BIN)/check-yaml .pre-commit-config.yaml CITATION.cff .github/*.yml .github/workflows/*.yml
	$(BIN)/check-toml pyproject.toml
	! grep -rnI --include='*.py' --include='*.md' --include='*.ipynb' "$$(printf '\357\277\275')" $(TEXTS)

# one thread for each of the two processes: threads that wait for each other take longer than one that works
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

test: lint
	$(ONE_THREAD) $(BIN)/pytest -n 2 -m 'not slow'

test-all: lint
	$(ONE_THREAD) $(BIN)/pytest -n 2

bench: .venv/.ready
	$(BIN)/python benchmarks/spectral_against_faithful.py
	$(BIN)/python benchmarks/anchors_needed.py
	$(BIN)/python benchmarks/kinks_needed.py
	$(BIN)/python benchmarks/dtypes_and_kernels.py
	$(BIN)/python benchmarks/proving_against_crown.py
	$(BIN)/python benchmarks/compiled.py
	$(BIN)/python benchmarks/window_gpu.py
	$(BIN)/python benchmarks/window_cpu.py
	$(BIN)/python benchmarks/hopfield.py
	$(BIN)/python benchmarks/incontext.py
	$(BIN)/python benchmarks/one_pass.py
	$(BIN)/python benchmarks/warm_fits.py
	$(BIN)/python benchmarks/compile_times.py
	$(BIN)/python benchmarks/compile_times.py --examples
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/walks.py
	$(BIN)/python benchmarks/repetition.py

docs: .venv/.ready
	$(BIN)/python benchmarks/house.py --write docs/modules.md
	$(BIN)/python benchmarks/trusted.py --write docs/trusted.md
	$(BIN)/python benchmarks/reference.py --write docs/reference.md
	$(BIN)/weightwright theorems --write docs/theorems.md
	$(BIN)/python benchmarks/compiled.py --write docs/compiled.md
	$(BIN)/python benchmarks/incontext.py --write docs/incontext.md
	$(BIN)/python benchmarks/one_pass.py --write docs/one_pass.md
	$(BIN)/python benchmarks/estimators.py --write docs/estimators.md
	$(BIN)/python benchmarks/reproduction.py --write docs/reproduction.md
	$(BIN)/python benchmarks/run_notebook.py --write notebooks/from_scikit_learn_to_a_transformer.ipynb
	$(BIN)/python benchmarks/run_notebook.py --write notebooks/interpretability.ipynb

# The newest versions that the requirements allow, where constraints.txt has none yet; it needs uv.
lock:
	$(UV) pip compile pyproject.toml --universal --all-extras --group dev --annotation-style line \
		--custom-compile-command 'make lock' --quiet --output-file constraints.txt
	$(PYTHON) tools/lock.py

# The wheel and the sdist, each installed into new environments and used, without and with every extra but ray.
dist: .venv/.ready
	$(BIN)/python tools/artefacts.py

clean:
	rm -rf .venv build dist
