"""The theorems on attention heads whose weights stand in the prompt, in our words: one frozen module runs them all."""

from __future__ import annotations

from weightwright.papers.theorems.theorem import Theorem

_PAPER = "in-context algorithm emulation paper"
_HERE = "weightwright.interpreter"
_RUN = "weightwright.papers.exhibits.program_instances"

PROGRAMS = (
    Theorem(
        id="AE-9",
        title="one frozen module runs any head from its prompt, weights along the embedding",
        statement="Two attention layers with fixed weights, given X and the entries of W_K, W_Q and W_V beside it,"
        " return softmax(K^T Q) V for every X and every program within the bounds; the order of tokens is the order of"
        " outputs (Remark 4.1).",
        source=f"{_PAPER}, Definitions 4.1 and 4.2, Theorem 4.1, Remark 4.1",
        repaired="A.1 and D.5 print two versions of the second layer (D.5's is used: keys, queries, values from the"
        " first, second, third block); (D.34) has Q in another block; A_h multiplies by K_h twice; |1 - e^-x| of (D.46)"
        " bounds one sign, e^x - 1 both. Ours has soft anchors of the identity in the place of H steep heads for every"
        " row: ten keys where the paper's constants ask for 9e8 heads (n = 64, d = 16, an error of 1e-3).",
        rate="exponential in the anchors; 1/H for the paper's",
        expects="PROVEN",
        home=f"{_HERE}.virtual_machine",
        small=f"{_RUN}:embedding",
    ),
    Theorem(
        id="AE-10",
        title="one frozen module runs any head from its prompt, weights stacked",
        statement="The same with row r of W_K, W_Q and W_V on token r, so that a token holds 3 d numbers of a program"
        " whatever the size of the head.",
        source=f"{_PAPER}, Theorem 4.2 (D.6), Remark 4.2",
        repaired="The text forces the size of the head to be n and P + 1 >= n: it is free here. Remark 4.2 says that"
        " the weights are further tokens; (D.50) stacks them as rows, and so do we. (D.91) as (D.46) of AE-9.",
        rate="exponential in the anchors; 1/P for the paper's",
        expects="PROVEN",
        home=f"{_HERE}.virtual_machine",
        small=f"{_RUN}:stacked",
    ),
    Theorem(
        id="AE-11",
        title="a library of algorithms in one frozen module, picked by the prompt",
        statement="One frozen module, a finite library of algorithms: gradients of any loss f(w . x - y) x, averaging,"
        " nearest neighbour, selection, copying, smooth functions; the prompt alone says which one runs, and a"
        " selector in the data picks one of several.",
        source=f"{_PAPER}, Corollary 4.2.1 and the discussion after Theorem 4.2; routing: universal approximation"
        " paper, appendix D.2",
        repaired="The corollary prints sum_j Attn_s(Attn_j(...)); only Attn_s(sum_j ...) of Theorem 4.2 works. The"
        " weights of Theorem 3.1's head do not depend on f, which stands in Linear(Z): a program is weights and"
        " constant rows that go into the prompt with them.",
        rate="each algorithm's own: the error that it states, and the module's bound",
        expects="MEASURED",
        home=f"{_HERE}.library.algorithms",
        small=f"{_RUN}:library_of_programs",
    ),
    Theorem(
        id="AE-12",
        title="any linear layer with its matrix in the prompt",
        statement="The module returns Theta x + b for every token, with Theta and b in the prompt, and runs stacks of"
        " linear layers with activations in between, program after program.",
        source=f"{_PAPER}, section 4.3",
        repaired="A token that sees itself alone returns W_V x exactly: no second construction is needed. The bias"
        " stands in a feature that is 1.",
        rate="the module's bound",
        expects="PROVEN",
        home=f"{_HERE}.library.layer_programs",
        small=f"{_RUN}:linear_layer",
    ),
)

FOLDING = (
    Theorem(
        id="AE-15",
        title="a linear map folds into an attention layer",
        statement="A linear map before or after an attention layer is the same layer with other weights: W_Q A, W_K A"
        " and B W_V A.",
        source=f"{_PAPER}, Lemma D.3",
        repaired="Nothing. Constant rows of a program have to come out of the map as they were: such rows are solved"
        " for, and refused where there are none.",
        rate="no error but rounding",
        expects="MEASURED",
        home=f"{_HERE}.library.layer_programs",
        small=f"{_RUN}:folded",
    ),
)
