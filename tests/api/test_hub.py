"""Whoever waits for news is woken, whenever the news came."""

from __future__ import annotations

import asyncio

from headway.api.web.services import Hub
from headway.control.views.snapshot import Published


async def woken(hub: Hub, after: int) -> bool:
    return await hub.events_after(after, wait_s=60)


def test_news_from_before_the_loop_ran_hold_up_none_that_come_later() -> None:
    async def listen() -> None:
        hub = Hub()
        hub.publish(Published(3))
        hub.begin(asyncio.get_running_loop(), last_seq=2)
        assert await woken(hub, 2)
        waiting = asyncio.create_task(woken(hub, 3))
        await asyncio.sleep(0)
        await asyncio.to_thread(hub.publish, Published(4))
        assert await waiting
        assert hub.last_seq == 4

    asyncio.run(listen())
