# `make images`: OCI archives of the programs in build/images (deploy/images/build says how to load them).
.PHONY: images
images: all
	@tests/lib/install-packages umoci
	@deploy/images/build --bin $(BUILD)/bin
