"""What a scheduler says of itself, to people and routers."""

from tests.managers.scheduler.world import World, greedy


def test_an_idle_scheduler_generates_nothing_a_second() -> None:
    world = World()
    world.add("hello", greedy(30, ignore_eos=True))
    rates = []
    while not world.scheduler.is_idle or not rates:
        world.clock.advance(0.1)
        world.step()
        rates.append(world.stats().gen_throughput)
    for _ in range(3):
        world.clock.advance(1.0)
        world.step()
    assert round(max(rates), 3) == 10.0
    assert world.stats().gen_throughput == 0.0


def test_neither_answers_nor_health_checks_change_the_share_of_prompts_that_was_cached() -> None:
    world = World()
    for _ in range(2):
        world.add("hello", greedy(20, ignore_eos=True))
        world.run()
    assert world.stats().cache_hit_rate == 4 / 10
    world.add("x", greedy(1), is_probe=True)
    world.run()
    assert world.stats().cache_hit_rate == 4 / 10
