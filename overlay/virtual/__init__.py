"""Virtual time and a virtual network: what the tests and the emulated benchmark run on."""
