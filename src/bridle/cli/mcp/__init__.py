"""`bridle mcp`: a module for each action or pair of actions."""
