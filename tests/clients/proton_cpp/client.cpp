// qpid-proton-cpp: a sender and a receiver on `orders`. Without reconnect_options the library never reconnects, so they
// are given, with their default values.
#include <proton/connection.hpp>
#include <proton/connection_options.hpp>
#include <proton/container.hpp>
#include <proton/error_condition.hpp>
#include <proton/messaging_handler.hpp>
#include <proton/reconnect_options.hpp>
#include <proton/transport.hpp>

#include <iostream>
#include <string>

class client : public proton::messaging_handler {
    std::string url;

  public:
    explicit client(const std::string& u) : url(u) {}

    void on_container_start(proton::container& container) override {
        proton::connection connection =
            container.connect(url, proton::connection_options().reconnect(proton::reconnect_options()));
        connection.open_receiver("orders");
        connection.open_sender("orders");
    }

    void on_error(const proton::error_condition& error) override { std::cout << error.what() << std::endl; }
};

int main(int, char** arguments) {
    client handler(arguments[1]);
    proton::container(handler).run();
}
