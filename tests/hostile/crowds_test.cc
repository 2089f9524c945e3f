// Clients that come in crowds, stop half way, take nothing, freeze, or die: others do not notice.
#include <string>

#include "tests/hostile/attacks.h"
#include "tests/hostile/hostile_fixture.h"

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
    const std::uint64_t before = attack.counter == nullptr ? 0 : Count(attack.counter);
    const std::uint64_t operations = witness_->operations();
    for (int i = 0; i < 2; ++i) attack.act(served_->where());
    if (attack.counter != nullptr) {
      EXPECT_TRUE(served_->AwaitCount(attack.counter, before + 2)) << attack.counter;
    }
    // Nothing of it stays, and the witness goes on.
    EXPECT_TRUE(served_->AwaitNoMore("connections", connections));
    EXPECT_EQ(Count("registered_bytes"), bytes);
    while (!witness_->has_ended() && witness_->operations() < operations + 10) {
    }
    ASSERT_FALSE(witness_->has_ended());
  }
  ExpectNobodyElseHarmed();
}

}  // namespace
}  // namespace remora
