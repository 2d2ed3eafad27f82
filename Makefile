# Every target sets up what it needs in .venv first; once set up, it is instant until
# pyproject.toml or constraints.txt changes.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CORE := $(VENV)/.installed-core
DEV := $(VENV)/.installed-dev
HEAVY := $(VENV)/.installed-heavy
# As pip compiles any other installation: where Python may not write bytecode, each command would compile the sources anew.
BYTECODE = $(BIN)/python -m compileall -q src
PYTEST_ARGS ?=
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --shuffle $(SHUFFLE) $(PYTEST_ARGS)
PROGRAMS := $(addprefix tests/,cli e2e evaluation fuzz hostile odometry report viewer) $(addprefix tests/test_,docs.py \
    examples.py paper_pipeline.py preparation.py readme.py)
FUZZ_ARGS ?=
# LIMAP without the OpenCV that it asks for, which would overwrite the one that the extraction needs.
LIMAP := pylimap antlr4-python3-runtime bresenham dacite h5py imagesize joblib omegaconf typeguard
SHUFFLE ?= random
GPU_PYTHON ?= 3.12

# Another version of Python: where `uv` or `pyenv` has it, or the system.
PYTHON_OTHER ?= 3.13
OTHER := .venv-$(PYTHON_OTHER)
OTHER_INSTALLED := $(OTHER)/.installed
OTHER_EXTRAS := io,mesh,extract,plot
OTHER_TOOLS := beartype hypothesis plyfile pytest pytest-xdist
OTHER_TESTS := $(addprefix tests/,estimation extraction geometry interop io moving report test_api_surface.py test_dependencies.py \
    test_errors.py test_registration.py test_result.py test_settings.py) $(addprefix tests/cli/test_,apply_refine.py convert_info.py \
    demo.py register.py)
FIND_OTHER = tests/find_python $(PYTHON_OTHER)

# Through the environment the pins also hold for the build backend, which pip installs apart.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test kernels other test-other heavy gpu gpu-site lint docs bench fuzz clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(CORE) kernels ## Register two line maps of one house, scanned in different frames
	$(BIN)/plueckernet demo --out demo

# One thread for each of the two workers: more only fight for the cores. Tests of functions check every array in a
# signature against its declared dtype and shape. Whole programs run as users run them, two to four times faster.
# Status 5 of pytest: PYTEST_ARGS selected no test of this kind.
test: $(DEV) kernels ## Run the tests in a random order (SHUFFLE=7 repeats one, PYTEST_ARGS="-k pose" runs some)
	$(PYTEST) --jaxtyping-packages=plueckernet,beartype.beartype $(addprefix --ignore=,$(PROGRAMS)) || [ $$? -eq 5 ]
	$(PYTEST) $(PROGRAMS) || [ $$? -eq 5 ]

# Geometry, files, extraction, registration, report and commands, which is where versions of Python may differ; not the large extras.
test-other: other ## Run the core tests with another Python (PYTHON_OTHER=3.12)
	@if [ ! -e $(OTHER_INSTALLED) ]; then echo "skipped: there is no Python $(PYTHON_OTHER) here"; else \
	    OMP_NUM_THREADS=1 $(OTHER)/bin/python -m pytest -n 2 --dist loadfile $(PYTEST_ARGS) $(OTHER_TESTS); fi

# Installing compiles them, too; this does it again where their sources have changed.
kernels: ## Compile the kernels in C, if there is a compiler
	@$(BIN)/python src/plueckernet/kernels/building.py || true

other: ## Set up .venv-3.13 for the tests with another Python
	@if ! $(FIND_OTHER) >/dev/null; then echo "there is no Python $(PYTHON_OTHER) here: its tests will be skipped"; \
	    else $(MAKE) --no-print-directory $(OTHER_INSTALLED); fi

gpu: $(DEV) kernels ## Run the tests of the GPU on this machine; without one they are skipped
	$(BIN)/python -m pytest -m gpu tests/gpu $(PYTEST_ARGS)

# Of a machine that has PyTorch and the dependencies of the package, but no pytest and no network.
gpu-site: $(DEV) ## Put what tests/gpu needs elsewhere into build/gpu-site (GPU_PYTHON=3.12)
	rm -rf build/gpu-site
	$(PIP) install --quiet --target build/gpu-site --python-version $(GPU_PYTHON) --only-binary=:all: --no-deps \
	    --no-compile pytest pluggy iniconfig packaging pygments beartype
	rm -rf build/gpu-site/bin

heavy: $(HEAVY) ## Install the large packages with which some more tests run

lint: $(DEV) ## Check format, style, types and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(DEV) ## Build the documentation into build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(DEV) kernels ## Run the benchmarks and write benchmarks/results
	$(BIN)/python -m benchmarks

# Each reader in a process of its own; counts and inputs that failed are in build/fuzz.
# By coverage instead, where atheris is installed: PYTHONPATH=.:src python -m tests.fuzz.guided lines-obj 300
fuzz: $(DEV) ## Read mutated files with every reader (FUZZ_ARGS="lines-obj --inputs 100000 --seed 7")
	OMP_NUM_THREADS=1 PYTHONPATH=.:src $(BIN)/python -m tests.fuzz $(FUZZ_ARGS)

clean: ## Remove .venv, caches and build products
	rm -rf $(VENV) .venv-* build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(CORE): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up $(VENV): the first time takes a few minutes"
	$(PIP) install --quiet -e .
	@$(BYTECODE)
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up $(VENV) for development: the first time takes a few minutes"
	$(PIP) install --quiet -e ".[dev]"
	@$(BYTECODE)
	@touch $(CORE) $@

$(HEAVY): $(DEV)
	$(PIP) install --quiet -e ".[heavy]"
	$(PIP) install --quiet --no-deps $(LIMAP)
	@touch $@

$(OTHER_INSTALLED): pyproject.toml constraints.txt
	$$($(FIND_OTHER)) -m venv $(OTHER)
	$(OTHER)/bin/python -m pip --disable-pip-version-check install --quiet -e ".[$(OTHER_EXTRAS)]" $(OTHER_TOOLS)
	@touch $@
