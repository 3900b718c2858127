"""The theorems of the low-rank self-attention paper, in our words. Tokens are rows here, columns in the paper."""

from __future__ import annotations

from weightwright.papers.theorems.theorem import Theorem

_PAPER = "low-rank self-attention paper"
_MEMORY = "weightwright.memory"
_SHOWN = "weightwright.papers.exhibits.memory_instances"

LOW_RANK = (
    Theorem(
        id="LR-1",
        title="the Boltzmann operator",
        statement="a . softmax(a) has the slope p_i (1 + log p_i + S) along a_i, falls where a_i < max a - log n - 1,"
        " and is concave where a_i < max a - log n - 3. Of vectors without repeated entries, whose entries differ by"
        " more than 2 log n + 3 or not at all, the results are more than (log n)^2 e^(-2 r) apart, r the largest size.",
        source=f"{_PAPER}, Definition 3, Lemmas 1 and 4 to 7",
        repaired="(114) has its indices the other way round for decreasing entries. With one entry the operator is the"
        " entry itself, and the bound (log n)^2 = 0 says nothing: it is taken apart.",
        rate="(log n)^2 e^-(a_1 - b_k), k the first entry in decreasing order that differs",
        expects="MEASURED",
        home=f"{_MEMORY}.boltzmann",
        small=f"{_SHOWN}:boltzmann_operator",
    ),
    Theorem(
        id="LR-2",
        title="hardmax attention is no contextual mapping",
        statement="No layer of hardmax attention, with any number of heads, tells the tokens that (1, 2, 5, 6) v and"
        " (1, 3, 4, 6) v share apart; a softmax head does.",
        source=f"{_PAPER}, Theorem 1",
        repaired="With W_K = 0 all scores tie, and a hardmax that shares its weight among ties tells the printed pair"
        " (1, 2, 4) v, (1, 3, 4) v apart. The repaired pair has equal extremes and equal sums: three cases of the"
        " coefficient of the scores, all computed in rational arithmetic.",
        rate="none: no parameter helps",
        expects="PROVEN",
        home=f"{_MEMORY}.hardmax_pair",
        small=f"{_SHOWN}:hardmax",
    ),
    Theorem(
        id="LR-3",
        title="a rank-1 head is a contextual mapping",
        statement="For sequences without repeated tokens there is a softmax head with W_Q, W_K, W_V of rank 1, of any"
        " head size, that gives tokens different ids wherever the token, or the set of tokens, is different.",
        source=f"{_PAPER}, Definition 2, Theorem 2, Lemmas 2 and 3",
        repaired="The proven separation is about e^(-|V|^4): zero in every float. Directions and temperature are found"
        " by a search, and the separation is enclosed on the stored weights, rounding included; the theorem's own"
        " stands beside it in logarithms. n = 1, where it is 0, is taken apart.",
        rate="separation about 1/(tokens of one word)^2 by chance, against e^(-|V|^4) by proof",
        expects="PROVEN",
        home=f"{_MEMORY}.context_mapping",
        small=f"{_SHOWN}:mapping",
        studies=f"{_SHOWN}:mapping_studies",
    ),
    Theorem(
        id="LR-4",
        title="one layer memorises labelled sets",
        statement="A rank-1 head and a feed-forward layer with 4 (s + d) + d (2 n N + d) parameters return the label of"
        " every token of N sequences without repeated tokens, labels being functions of the set and the token.",
        source=f"{_PAPER}, Corollary 1",
        repaired="Ids and labels have coordinates of their own, so that d is d + 2 in the count. Ramps of two kinks and"
        " one height for every change of label: d + 3 m + 1 numbers. Run by binary search, or summed where all sums are"
        " exact.",
        rate="parameters linear in the changes of label",
        expects="PROVEN",
        home=f"{_MEMORY}.memorizing",
        small=f"{_SHOWN}:labelled_sets",
    ),
    Theorem(
        id="LR-5",
        title="one layer memorises labelled sequences",
        statement="With positions the same holds of any sequences, repeated tokens included.",
        source=f"{_PAPER}, Corollary 2",
        repaired="The printed spacing 2 r_max lets neighbours meet (r at one position, -r at the next, d = 1), and its"
        " norm is (2 n sqrt(d) + 1) r_max. The code runs along the direction that the head looks along, its step is"
        " found by search, and words at different positions never have one key.",
        rate="parameters linear in the changes of label",
        expects="PROVEN",
        home=f"{_MEMORY}.memorizing",
        small=f"{_SHOWN}:labelled_sequences",
        studies=f"{_SHOWN}:capacity_studies",
    ),
    Theorem(
        id="LR-6",
        title="functions of sequences by quantising and look-up",
        statement="A feed-forward layer, a rank-1 head and another feed-forward layer approximate every continuous"
        " permutation-equivariant function in L_p; with positions every continuous function.",
        source=f"{_PAPER}, Proposition 1",
        repaired="(58) is off by one, the signs of (59) do not give -1 outside, sigma(u-1) - sigma(u) + sigma(u+1) is"
        " no bump, (60) and (67) sum over tokens, a cell has volume D^(-dn): ramps derived anew, no penalty inside"
        " [0, 1], look-up by the id of a token, multisets in place of sets.",
        rate="1/D, D cells for a number",
        expects="MEASURED",
        home=f"{_MEMORY}.looked_up",
        small=f"{_SHOWN}:functions",
        studies=f"{_SHOWN}:function_studies",
    ),
    Theorem(
        id="LR-7",
        title="contextual mappings under masks",
        statement="Under a causal mask or a padding mask the head is still a contextual mapping, of what is seen.",
        source=f"{_PAPER}, Remark 1, Appendix C",
        repaired="Nothing: the search encloses the separation under the mask. A padding mask computes what the sequence"
        " alone does, and sequences of one length run together.",
        rate="as for LR-3",
        expects="PROVEN",
        home=f"{_MEMORY}.memorizing",
        small=f"{_SHOWN}:masks",
    ),
)
