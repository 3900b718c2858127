"""Every way out of the house: a network as an ONNX file, as a TransformerLens model, as torch source; and pictures.

Each export is run beside the module on the same random inputs and says the largest difference. One file per format,
each with the libraries it needs, so nothing is imported here.
"""
