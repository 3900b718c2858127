from __future__ import annotations

import gc
from collections import defaultdict
from pathlib import Path

import pytest
import torch
from hypothesis import settings

import weightwright as ww

settings.register_profile("project", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("project")
torch.set_num_threads(1)  # many small products: more threads only wait for each other


#: Tests with many cases of one kind that take seconds each, and how many of these `make test` runs, spread evenly over
#: them; 0 for single tests that take as long. The others are slow: `make test-all` runs all.
FEW = {
    "test_a_bound_on_a_derivative_is_enough": 2,
    "test_a_certificate_for_another_network_is_refused": 2,
    "test_a_claim_that_says_more_is_refused": 10,
    "test_a_compiled_network_runs_from_a_prompt": 1,
    "test_a_false_claim_is_refused": 3,
    "test_a_kink_is_proven_by_small_boxes": 0,
    "test_a_loss_that_is_no_function_of_the_residual": 0,
    "test_a_reader_that_has_left_is_no_error_of_ours": 0,
    "test_a_row_alone_and_in_a_batch": 4,
    "test_a_step_that_diverges_names_the_largest_stable_one": 1,
    "test_a_tolerance_out_of_reach_is_refused_with_the_best_bound": 0,
    "test_a_tolerance_out_of_reach_names_the_columns_that_cost_most": 0,
    "test_a_tolerance_that_cannot_be_proven_names_the_best": 1,
    "test_ablatable_functions_are_proven_and_bare": 3,
    "test_arguments_that_leave_their_tables_are_errors": 0,
    "test_as_scikit_learn": 1,
    "test_beside_the_point_nothing_is_lost": 4,
    "test_coefficients_and_predictions_are_scikit_learns": 2,
    "test_constant_columns_and_unequal_ones": 2,
    "test_constant_targets": 4,
    "test_counts_are_those_of_the_networks": 3,
    "test_counts_without_an_intercept_that_run_off_are_planned_again": 0,
    "test_defined_functions_are_measured": 1,
    "test_every_algorithm_follows_its_exact_iterates": 5,
    "test_every_cell_prints_what_is_stored": 0,
    "test_every_instance_is_proven_and_counted": 5,
    "test_every_network_in_one_graph": 4,
    "test_every_text_says_one_pass": 0,
    "test_everything_that_approximate_makes_leaves_as_it_is": 6,
    "test_examples_are_proven_and_no_search_finds_a_violation": 4,
    "test_expressions_by_hand": 10,
    "test_fits_of_any_scale": 6,
    "test_float32_holds_in_every_cpu_kernel": 1,
    "test_float32_keeps_its_own_bounds": 0,
    "test_formulas_are_proven_through_their_limit_and_forgeries_are_not": 2,
    "test_functions_of_torchs_table": 1,
    "test_gates_of_subnormal_size_keep_their_bound": 1,
    "test_hooks_do_what_is_predicted": 1,
    "test_huber_beside_a_feature_that_is_constant_but_for_rounding": 0,
    "test_inputs_are_admitted_under_every_transform": 1,
    "test_it_is_proven_and_right": 8,
    "test_iterations_whose_ranges_are_hard_to_enclose": 0,
    "test_json_comes_back_as_the_same_circuit": 12,
    "test_kinked_formulas_never_exceed_their_bound": 1,
    "test_least_squares_on_nearly_singular_data_says_how_far_it_got": 0,
    "test_logistic_regression_is_scikit_learns": 1,
    "test_measured_refuses_what_the_search_contradicts": 0,
    "test_measured_says_what_was_found_and_claims_nothing": 1,
    "test_measured_says_why_there_is_no_proof": 0,
    "test_modules_in_train_and_eval_mode": 0,
    "test_networks_are_native_and_as_large_as_the_graph": 6,
    "test_networks_compute_their_graphs_and_the_checker_agrees": 6,
    "test_newton_square_root": 0,
    "test_no_field_of_a_compiled_certificate_may_change": 35,
    "test_no_input_that_is_found_is_worse_than_the_bound": 10,
    "test_no_point_beats_the_bound": 2,
    "test_no_search_finds_a_pass_above_the_bound": 0,
    "test_nothing_is_cut_off_and_nothing_overlaps": 3,
    "test_on_registers_only_a_head_has_at_most_64_keys": 4,
    "test_one_example_and_many_features": 0,
    "test_options_are_passed_on": 0,
    "test_penalties_and_weights_at_the_ends_of_floats": 2,
    "test_pictures_of_two_variables_and_of_measured_errors": 0,
    "test_piecewise_linear_functions": 4,
    "test_programs_stay_within_the_bound": 2,
    "test_proving_and_checking_are_quick": 0,
    "test_random_formulas_in_float32": 0,
    "test_random_formulas_never_exceed_their_bound": 1,
    "test_random_functions_stay_within_their_bounds": 3,
    "test_random_piecewise_linear_functions": 3,
    "test_runge_needs_at_most_96_anchors": 0,
    "test_same_inputs_same_bytes_in_two_processes": 0,
    "test_saved_loaded_checked_and_interpreted": 6,
    "test_scaled_features_with_scaled_penalties_have_the_same_optimum": 1,
    "test_scikit_learns_checks_pass": 0,
    "test_smooth_functions_are_proven_with_few_anchors": 4,
    "test_subnormal_values_in_float32": 1,
    "test_tables_add_what_their_function_says": 8,
    "test_the_bound_inside_holds_up_to_the_ends": 0,
    "test_the_bound_is_never_below_the_distance": 8,
    "test_the_error_in_three_numbers_falls_like_one_over_g": 2,
    "test_the_error_in_two_numbers_falls_like_one_over_g": 2,
    "test_the_error_of_the_papers_anchors_falls_as_one_over_their_number": 0,
    "test_the_first_exp_of_a_process_is_one_threads": 0,
    "test_the_five_match_pytorch_and_are_proven": 2,
    "test_the_lemma_bounds_every_step": 1,
    "test_the_network_is_gradient_descent": 1,
    "test_the_papers_anchors_are_proven_too_and_far_worse": 0,
    "test_the_spectral_head_is_a_thousand_times_smaller": 0,
    "test_transformer_lens_does_what_is_predicted": 1,
    "test_two_million_tokens_fit_in_a_gigabyte": 0,
    "test_what_is_still_accepted_still_holds": 4,
    "test_what_stands_beside_heads_is_seen": 3,
    "test_whatever_a_function_takes": 2,
}


@pytest.hookimpl(tryfirst=True)  # before what is slow is left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases = defaultdict[tuple[Path, str], list[pytest.Item]](list)
    for item in items:
        name = getattr(item, "originalname", "")
        if name in FEW and item.get_closest_marker("slow") is None:
            cases[item.path, name].append(item)
    for (_, name), group in cases.items():
        kept = {round(i * len(group) / FEW[name]) for i in range(FEW[name])}
        for place, item in enumerate(group):
            if place not in kept:
                item.add_marker("slow")


def pytest_collection_finish() -> None:
    """What is imported stays to the end: the garbage collector need not go through it again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """A test that leaves torch with more threads makes all that come after it slow."""
    left = torch.get_num_threads()
    torch.set_num_threads(1)
    assert left == 1, f"the test leaves torch with {left} threads"


@pytest.fixture(scope="session")
def sine() -> ww.AttentionNetwork:
    """A proven network that many tests look at and none changes."""
    return ww.approximate("sin(5*x)", (-1, 1), 1e-8)


@pytest.fixture
def saved(sine: ww.AttentionNetwork, tmp_path: Path) -> Path:
    path = tmp_path / "sine.safetensors"
    sine.save(path)
    return path
