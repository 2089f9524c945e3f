// Clients that come in crowds, stop half way, take nothing, freeze, or die: others do not notice.
#include <chrono>
#include <cstdio>
#include <string>

#include "tests/adversarial/adversarial_fixture.h"
#include "tests/adversarial/attacks.h"

namespace remora {
namespace {

class Crowds : public Hostile {};
INSTANTIATE_HOSTILE(Crowds);

TEST_P(Crowds, EachInItsTurn) {
  START_HOSTILE({"--max_clients=" + std::to_string(kAttackedClients)});
  const std::uint64_t connections = Count("connections");
  const std::uint64_t bytes = Count("registered_bytes");
  for (const Attack& attack : AttacksOver(GetParam())) {
    SCOPED_TRACE(attack.name);
    const TimePoint begin = served_->clock().Now();
    const std::uint64_t before = attack.counter == nullptr ? 0 : Count(attack.counter);
    const std::uint64_t operations = witness_->operations();
    attack.act(served_->where());
    if (attack.counter != nullptr) {
      EXPECT_TRUE(served_->AwaitCount(attack.counter, before + 1)) << attack.counter;
    }
    // Nothing of it stays, and the witness goes on.
    EXPECT_TRUE(served_->AwaitNoMore("connections", connections));
    EXPECT_EQ(Count("registered_bytes"), bytes);
    while (!witness_->has_ended() && witness_->operations() < operations + 10) {
    }
    ASSERT_FALSE(witness_->has_ended());
    std::printf("%s: %.3f s\n", attack.name,
                std::chrono::duration<double>(served_->clock().Now() - begin).count());
    std::fflush(stdout);
  }
  ExpectNobodyElseHarmed();
}

}  // namespace
}  // namespace remora
