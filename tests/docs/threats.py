"""The threat model names a test for each row, and that test exists."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PAGE: Final = "docs/security.md"
PENDING: Final = frozenset(
    {
        "test_a_broker_and_an_operator_get_in_when_clients_have_taken_all_their_room",
        "test_a_client_does_not_have_the_name_of_a_broker_that_is_or_was_there",
        "test_a_client_that_asks_for_much_of_the_past_and_does_not_read_takes_little",
        "test_a_client_with_a_false_clock_is_cut_off_and_no_clock_moves",
        "test_a_client_with_more_interests_than_a_neighbour_takes_costs_its_broker_nothing",
        "test_a_durable_subscription_is_not_taken_over_emptied_or_ended_by_another_identity",
        "test_a_hello_without_the_key_fences_no_living_broker",
        "test_a_key_of_another_topic_reaches_nobody_whom_its_publisher_may_not_reach",
        "test_a_life_far_ahead_of_the_clock_is_refused_or_not_believed",
        "test_a_member_cannot_pass_a_login_on_to_another_broker",
        "test_a_proof_is_of_no_use_for_another_life_another_broker_or_another_connection",
        "test_filters_that_place_wildcards_in_many_ways_are_refused",
        "test_many_logins_in_one_read_cost_one_line_and_no_traceback",
        "test_no_broker_learns_the_secret_of_whoever_logs_in",
        "test_publishers_at_another_broker_go_on_beside_a_reader_that_takes_nothing",
        "test_replies_of_others_are_not_consumed_by_a_durable_subscription",
        "test_slow_connections_do_not_keep_signs_of_health_away",
        "test_stamps_that_no_clock_can_have_reached_harm_nobody_wherever_brokers_tell_them",
        "test_the_decoder_takes_a_number_at_its_bound_and_refuses_the_next_one",
        "test_unknown_identities_get_the_same_answers_as_known_ones",
        "test_what_is_open_is_named",
        "test_whoever_subscribes_with_conditions_that_take_long_loses_its_session_and_nobody_else_waits",
        "test_with_certificates_and_no_rules_only_an_operator_forgets_brokers_or_ends_what_others_own",
        "test_wrong_secrets_are_refused_and_counted_and_lock_nobody_out",
    }
)
"""Tests that are written and not merged yet. Empty it when they are."""
_NAMED: Final = re.compile(r"`(tests/[\w/]+(?:\.py)?)(?:::(\w+))?`")


def complaints(root: Path) -> Iterator[str]:
    text = (root / PAGE).read_text()
    model = text[text.index("## Threat model") : text.index("**What is left.**")]
    for line in model.splitlines():
        is_row = line.startswith("| ") and not line.startswith(("| who |", "| party |"))
        if is_row and line.count("|") == 5 and not _NAMED.search(line):
            yield f"{PAGE}: no test is named for {line[:80]}"
        for file, test in _NAMED.findall(line):
            if test in PENDING:
                continue
            if not (root / file).exists():
                yield f"{PAGE}: there is no {file}"
            elif test and f"def {test}(" not in (root / file).read_text():
                yield f"{PAGE}: {file} has no {test}"
