"""What a certificate says, as data, and the file that holds it. Nothing is computed here.

`prover` proposes claims, `checker` believes none of them; both read these classes and import nothing of each other's.
"""
