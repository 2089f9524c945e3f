#include "client/session/address_choice.h"

#include <chrono>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/manual_clock.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

class AddressChoiceTest : public ::testing::Test {
 protected:
  AddressChoice Of(const std::string& addresses) {
    auto choice = AddressChoice::Of(addresses, options_, clock_);
    EXPECT_TRUE(choice.ok()) << choice.status();
    return *std::move(choice);
  }

  ManualClock clock_;
  ClientOptions options_{.connect_timeout = milliseconds(6000)};
};

TEST_F(AddressChoiceTest, AnAddressThatIsNotThereIsPassedOver) {
  for (const absl::Status& status : {absl::UnavailableError("away"), absl::DeadlineExceededError("silent"),
                                     absl::FailedPreconditionError("no device")}) {
    AddressChoice choice = Of("tcp://a:1,tcp://b:2");
    EXPECT_EQ(choice.Description(), "tcp://a:1, tcp (READs are served by the server's CPU)");
    EXPECT_TRUE(choice.PassOver(status));
    EXPECT_EQ(choice.Description(), "tcp://b:2, tcp (READs are served by the server's CPU); not tcp://a:1: " +
                                        std::string(status.message()));
    EXPECT_FALSE(choice.PassOver(status));  // it is the last one
    EXPECT_EQ(choice.StatusOf(absl::UnavailableError("gone")),
              absl::UnavailableError("tcp://b:2: gone; not tcp://a:1: " + std::string(status.message())));
  }
}

TEST_F(AddressChoiceTest, ARejectionIsFinal) {
  for (const absl::Status& status :
       {absl::PermissionDeniedError("no"), absl::InvalidArgumentError("no"),
        absl::ResourceExhaustedError("no"), absl::CancelledError("no"), absl::InternalError("no")}) {
    AddressChoice choice = Of("tls://a:1,tcp://b:2");
    EXPECT_FALSE(choice.PassOver(status)) << status;
  }
}

TEST_F(AddressChoiceTest, TheAddressesShareTheTime) {
  AddressChoice choice = Of("tcp://a:1,tcp://b:2,tcp://c:3");
  EXPECT_EQ(choice.Options().connect_timeout, milliseconds(2000));
  clock_.Advance(milliseconds(1000));
  ASSERT_TRUE(choice.PassOver(absl::UnavailableError("away")));
  EXPECT_EQ(choice.Options().connect_timeout, milliseconds(2500));
  clock_.Advance(milliseconds(2500));
  ASSERT_TRUE(choice.PassOver(absl::DeadlineExceededError("silent")));
  EXPECT_EQ(choice.Options().connect_timeout, milliseconds(2500));
  clock_.Advance(milliseconds(9000));
  EXPECT_EQ(choice.Options().connect_timeout, milliseconds(0));
  EXPECT_EQ(Of("tcp://a:1").Options().connect_timeout, options_.connect_timeout);
}

TEST_F(AddressChoiceTest, OptionsAreThoseOfTheTransport) {
  AddressChoice choice = Of("local:///a,tcp://b:2");
  EXPECT_EQ(choice.Options().location_cache_bytes, 0u);
  ASSERT_TRUE(choice.PassOver(absl::UnavailableError("away")));
  EXPECT_EQ(choice.Options().location_cache_bytes, std::nullopt);
}

// Certificates are for the addresses with TLS. In a list that has none, they are an error, as with one
// address.
TEST_F(AddressChoiceTest, CertificatesAreForTls) {
  options_.tls.ca = "/no/such/file";
  const auto code_of_dial = [&](const AddressChoice& choice) {
    const auto dialer = choice.MakeDialer();
    EXPECT_TRUE(dialer.ok());
    return (*dialer)(clock_.Now() + milliseconds(100)).status().code();
  };
  AddressChoice choice = Of("tcp://127.0.0.1:1,tls://127.0.0.1:1");
  EXPECT_EQ(code_of_dial(choice), absl::StatusCode::kOk);
  ASSERT_TRUE(choice.PassOver(absl::UnavailableError("away")));
  EXPECT_EQ(code_of_dial(choice), absl::StatusCode::kNotFound);
  EXPECT_EQ(code_of_dial(Of("tcp://127.0.0.1:1,tcp://127.0.0.1:2")), absl::StatusCode::kInvalidArgument);
}

TEST_F(AddressChoiceTest, AListIsChecked) {
  EXPECT_EQ(AddressChoice::Of("tcp://a:1,tcp://b", options_, clock_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace remora
