#include "server/http/monitor_service.h"

#include <utility>

#include "server/http/http_listener.h"
#include "store/base/status_macros.h"

namespace remora {

absl::StatusOr<std::unique_ptr<MonitorService>> MonitorService::Start(std::string_view address,
                                                                      bool others_may_reach,
                                                                      MonitorFacts facts,
                                                                      const Clock& clock) {
  REMORA_ASSIGN_OR_RETURN(HttpListener listener, ListenForHttp(address, others_may_reach));
  std::unique_ptr<MonitorService> service(new MonitorService);
  service->address_ = std::move(listener.address);
  service->monitor_ = std::make_unique<Monitor>(std::move(facts), clock);
  REMORA_ASSIGN_OR_RETURN(service->server_,
                          HttpServer::Start(std::move(listener.socket), service->monitor_->MakeResponder()));
  return service;
}

}  // namespace remora
