"""A session in a client: controller, driver, effects, the queue of questions."""
